def update(): return False
